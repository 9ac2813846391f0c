# Stand-in for Homebrew: `ruby homebrew.rb FORMULA PREFIX SOURCE PYTHON` installs a formula's package
# and runs the formula's own test. Prints the command of its service, as JSON.
#
# Packages that Homebrew would compile are installed as wheels of the same versions.
require "json"
require "pathname"

CALLED_ON_ENV = [] # methods with which Homebrew changes what its compilers do
%i[runtime_cpu_detection O3].each { |name| ENV.define_singleton_method(name) { CALLED_ON_ENV << name } }

PREFIX, SOURCE, PYTHON = Pathname(ARGV[1]), ARGV[2], ARGV[3]
Resource = Struct.new(:name, :fields)

# Calls such as `url "…"`, which set a field.
class Fields < BasicObject
  attr_reader :values

  def initialize(formula = nil, &block)
    @values, @formula = {}, formula
    instance_eval(&block)
  end

  def method_missing(name, *value) = value.empty? ? @formula.send(name) : @values[name] = value.first
end

module Language
  module Python
    module Virtualenv
      def virtualenv_install_with_resources
        run PYTHON, "-m", "venv", "--system-site-packages", "--without-pip", libexec
        wheels, sources = self.class.resources.partition { |each| each.fields[:url].match?(/[.-]py3[^-]*-none-any.whl$/) }
        lines = wheels.map { |each| "#{each.name} @ #{each.fields[:url]} --hash=sha256:#{each.fields[:sha256]}\n" }
        (PREFIX/"wheels.txt").write lines.join
        pip "--ignore-installed", "--require-hashes", "-r", PREFIX/"wheels.txt"
        versions = sources.map { |each| "#{each.name}==#{each.fields[:url][/-([\d.]+)\.tar\.gz$/, 1]}" }
        pip "--ignore-installed", "--only-binary=:all:", *versions, *(self.class.dependencies & %w[numpy pillow])
        pip SOURCE
        bin.mkpath
        (bin/"embedwell").make_symlink libexec/"bin/embedwell"
      end

      def pip(*arguments)
        run PYTHON, "-m", "pip", "--python=#{libexec}/bin/python", "install", "--quiet", "--no-compile", "--no-deps", *arguments
      end
    end
  end
end

class Formula
  class << self
    attr_reader :service_fields, :test_block, :resources, :dependencies, :fields

    def inherited(formula)
      formula.instance_exec { @resources, @dependencies, @fields = [], [], {} }
    end

    %i[desc homepage url sha256 license].each { |name| define_method(name) { |value| @fields[name] = value } }

    def depends_on(name) = @dependencies << (name.is_a?(Hash) ? name.keys.first : name)
    def on_linux = yield
    def resource(name, &block) = @resources << Resource.new(name, Fields.new(&block).values)
    def test(&block) = @test_block = block

    def service(&block) = @service_fields = Fields.new(new, &block).values
  end

  def bin = PREFIX/"bin"
  def libexec = PREFIX/"libexec"
  def var = PREFIX/"var"
  def version = self.class.fields[:url][/-([\d.]+)\.tar\.gz$/, 1]
  def build = Struct.new(:bottle?).new(true)
  def run(*command) = system(*command.map(&:to_s)) || abort("failed: #{command.join(" ")}")
  def shell_output(command) = `#{command}`.tap { abort "failed: #{command}" unless $?.success? }
  def assert_match(part, text) = text.include?(part) || abort("#{text} does not contain #{part}")
  def refute_match(part, text) = !text.include?(part) || abort("#{text} contains #{part}")
  alias opt_bin bin
end

load ARGV[0]
formula = Embedwell.new
formula.install
formula.post_install
formula.instance_eval(&Embedwell.test_block)
puts JSON.generate(service: Embedwell.service_fields, compilers: CALLED_ON_ENV)
